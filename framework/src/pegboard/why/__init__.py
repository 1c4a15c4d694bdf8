"""Why a tool is or is not offered, from the same resolver that offers it."""
