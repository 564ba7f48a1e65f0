#!/usr/bin/python3
"""The interpreter's SDKs against the image code-interpreter-v1 itself: `make image-test`, not part of `./test`, since building
the image takes some ten minutes. BRIG_TEST_STATE: a state folder that has the image already; then nothing is built.

What continuous integration proves instead: tests/api/sdk.t runs the same files on the image `host`, whose Python, IPython,
matplotlib, pandas and Node.js are the same Debian packages."""
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BRIG = os.path.abspath(os.environ.get("BRIG", os.path.join(ROOT, "build", "brig")))
NAME = "code-interpreter-v1"


def main():
    state = os.environ.get("BRIG_TEST_STATE")
    with tempfile.TemporaryDirectory(prefix="brig-image-") as own:
        env = {**os.environ, "BRIG_STATE": state or own}
        if not state:
            recipe = os.path.join(ROOT, "dist", "recipes", NAME + ".yaml")
            subprocess.run([BRIG, "image", "build", "--name", NAME, recipe], env=env, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([BRIG, "image", "show", NAME], env=env, check=True, stdout=subprocess.DEVNULL)
        rc = subprocess.call([os.path.join(ROOT, "tests", "api", "sdk.t")],
                             env={**env, "BRIG_SDK_STATE": env["BRIG_STATE"], "BRIG_CASES": "^(image|code|results) "})
        if not state:
            subprocess.run([BRIG, "image", "remove", NAME], env=env, check=True, stdout=subprocess.DEVNULL)
    return rc


if __name__ == "__main__":
    sys.exit(main())
