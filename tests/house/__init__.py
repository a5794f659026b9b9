"""What is checked and measured of the tree itself."""
