"""A file from another machine becomes a ladder."""

from __future__ import annotations

from pathlib import Path

import pytest
from blake3 import blake3

from certificates import certificate
from e2e.conftest import MakeClip
from e2e.studio import Studio
from harness import Program
from tqstudio.protocol import calls


@pytest.mark.slow
def test_an_uploaded_file_becomes_a_ladder(ffmpeg: str, clip: MakeClip, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    studio = Studio(tmp_path / "studio", ffmpeg, listen="127.0.0.1:0", tls_cert=str(cert), tls_key=str(key))
    studio.up()
    try:
        far = Program(tmp_path / "laptop", TQSTUDIO_CONNECT="nas")
        far.home.root.mkdir(mode=0o700)
        secret = far.home.root / "token"
        secret.touch(mode=0o600)
        secret.write_text(studio.send(calls.create_token("laptop", "operate"))["token"])
        url = str(studio.send(calls.status())["supervisor"]["listen"]).replace("127.0.0.1", "localhost")
        (far.home.root / "connections.toml").write_text(
            f'[nas]\nurl = "{url}"\ntoken_file = "{secret}"\nca = "{cert}"\n'
        )
        source = clip()
        [result] = far("add", source, "--json").json()["results"]
        studio.done(result["job"])
        [received] = [path for path in studio.home.incoming.iterdir() if path.is_file()]
        assert blake3(received.read_bytes()).digest() == blake3(source.read_bytes()).digest()
        assert (studio.home.output / result["slug"] / "master.m3u8").is_file()
        assert far("add", source, "--json").json()["results"][0]["decision"] == "cached"
        assert [path.name for path in studio.home.incoming.iterdir() if path.is_file()] == [source.name]
    finally:
        studio.down()
