"""Local folders: downloads, exports, and what files beside a lake are."""
