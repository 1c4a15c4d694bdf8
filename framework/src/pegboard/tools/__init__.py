"""Tools from typed functions, the registry of all tools, and the views and snapshots made from it."""
