"""Starting processes and reading what they write, without knowing who asked."""
