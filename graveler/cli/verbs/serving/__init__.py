"""The verbs of what is served: the gateway, and its users."""
