"""What everybody names and nothing here acts on: messages, tools, events, verdicts, the marks on hooks."""
