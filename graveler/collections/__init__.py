"""What Keep remembers in the key-value store: its systems and their servers, and collections."""
