"""The pictures of the documentation: a headless browser takes them of real orchestrators."""
