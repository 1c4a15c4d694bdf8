"""Where Pegboard keeps what belongs to one user on one machine."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Places:
    """The user's own configuration file, and the folder of what Pegboard itself remembers."""

    config_file: Path
    state_dir: Path

    @classmethod
    def default(cls) -> "Places":
        """Return where this platform keeps such files for the current user."""
        import platformdirs

        return cls(
            platformdirs.user_config_path("pegboard", appauthor=False) / "config.toml",
            platformdirs.user_state_path("pegboard", appauthor=False),
        )

    @property
    def state_file(self) -> Path:
        """Where `pegboard packs enable` and the like are remembered."""
        return self.state_dir / "state.toml"

    @property
    def trust_dir(self) -> Path:
        """Where it is remembered which projects are trusted, one file each."""
        return self.state_dir / "trust"
