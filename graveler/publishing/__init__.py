"""The only way to move a branch: landing, candidates, and the panel of gates that judges them."""
