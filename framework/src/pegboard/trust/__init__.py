"""What an unknown project may do before a person has looked at it, and what a person agreed to."""
