"""The verbs, a module for each group of them."""
