"""What knows nothing of Pegboard: texts, errors, cancellation, scopes and layers, files, isolated calls."""
