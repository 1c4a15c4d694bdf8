"""One tool call and the batch that it is part of: checked, guarded, run, its result cut and recorded."""
