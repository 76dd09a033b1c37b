"""Entry of scripts/gpu_check.sh, which says what it does."""
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from gpu_check.command import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
