"""What sensors and triggers wait for."""
