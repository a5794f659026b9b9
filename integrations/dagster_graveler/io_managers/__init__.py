"""IO managers: assets as folders of the lake."""
