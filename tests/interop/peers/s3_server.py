"""A bucket for one test: prints its port, serves until its standard input ends. Runs in .venv-s3 (moto)."""

from __future__ import annotations

import logging
import sys

from moto.server import ThreadedMotoServer

logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
sys.stdout.write(f"{server.get_host_and_port()[1]}\n")
sys.stdout.flush()
sys.stdin.read()
