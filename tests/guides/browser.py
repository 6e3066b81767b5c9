"""Opens pages in Chromium, which say themselves what became of them."""

from __future__ import annotations

import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
IS_HERE = Path(CHROMIUM).exists()
SAY = "say"
"""The function by which the script of a page says it."""


def said_by(page: Path, script: str, profile: Path, address: str = "") -> str:
    """Open a copy of a page with one more script, and wait until that says something.

    Args:
        page: a file; its copy is beside it.
        profile: an empty folder for Chromium.
        address: where the folder of the page is served; without one the file itself is opened.
    """
    said: list[str] = []
    came = threading.Event()

    class Listen(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            said.append(unquote(urlsplit(self.path).query))
            came.set()
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    copy = page.with_name("copy.html")
    with HTTPServer(("127.0.0.1", 0), Listen) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        to = f"http://127.0.0.1:{server.server_port}/?"
        say = f'const {SAY} = text => new Image().src = "{to}" + encodeURIComponent(text);'
        copy.write_text(f"{page.read_text()}<script>\n{say}\n{script}\n</script>")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
        options += [f"--user-data-dir={profile}", "--autoplay-policy=no-user-gesture-required"]
        opened = f"{address}/copy.html" if address else copy.as_uri()
        browser = subprocess.Popen(
            [CHROMIUM, *options, opened], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            assert came.wait(120), f"{page.name} says nothing"
            return said[0]
        finally:
            browser.terminate()
            browser.wait(60)
            copy.unlink()
            server.shutdown()
