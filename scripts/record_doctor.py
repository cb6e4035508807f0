"""Record what the bundled models give, which 'genar doctor' compares; run it whenever one was trained anew."""

from genar.record import write
from genar.shelf import BUNDLED, bundled

if __name__ == "__main__":
    for name in bundled():
        print(f"wrote {write(BUNDLED / name)}")
