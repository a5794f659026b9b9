"""What graveler's integrations with orchestrators share; it imports none of them."""
