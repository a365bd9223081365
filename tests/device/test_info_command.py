"""python -m torch_pjrt info."""

import json
import subprocess
import sys


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "torch_pjrt", *arguments], capture_output=True, text=True
    )


def test_json_names_plugin_devices_and_dtypes():
    done = run("info", "--json")
    assert done.returncode == 0, done.stderr
    info = json.loads(done.stdout)
    assert info["platform"] == "cpu"
    assert {"f32", "bf16", "i64"} <= set(info["dtypes"])
    assert all(device["memories"] for device in info["devices"])
    assert info["device_count"] == 1


def test_text_shows_the_plugin():
    done = run("info")
    assert done.returncode == 0 and "api_version" in done.stdout
