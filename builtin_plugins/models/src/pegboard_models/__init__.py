"""The `models` pack: model routes. So far `offline`, a rule model without a language model, and `scripted:FILE`."""

__version__ = "0.1.0"
