"""The pack `{{ cookiecutter.name }}` for Pegboard."""
