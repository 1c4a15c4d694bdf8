"""Settings: from files and the environment to checked values, each with the place it came from."""
