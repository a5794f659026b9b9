"""The pictures of the documentation: real orchestrators, photographed by a headless browser."""
