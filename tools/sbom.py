"""Writes the bill of materials of a release: the packages of the lock, ffmpeg and hls.js, as CycloneDX."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import imageio_ffmpeg
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

import locked

_SHA_256 = HashAlgorithm.SHA_256


def sbom(root: Path, version: str, digests: Iterable[str]) -> str:
    """Return the bill of materials as JSON.

    Args:
        root: the checkout.
        digests: the SHA-256 of each file of the release.
    """
    bom = Bom(components=_components(root))
    bom.metadata.component = product = _component("pypi", "tqstudio", version, _SHA_256, digests)
    bom.register_dependency(product, bom.components)
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _components(root: Path) -> Iterator[Component]:
    for package in locked.for_users(root / "requirements.lock"):
        yield _component("pypi", package.name, package.version, _SHA_256, package.hashes)
    version = imageio_ffmpeg.get_ffmpeg_version()
    yield Component(type=ComponentType.APPLICATION, name="ffmpeg", version=version, bom_ref="ffmpeg")
    packages = json.loads((root / "player" / "package-lock.json").read_text())["packages"]
    for path, found in packages.items():
        if path:
            digest = base64.b64decode(found["integrity"].removeprefix("sha512-")).hex()
            name = path.removeprefix("node_modules/")
            yield _component("npm", name, found["version"], HashAlgorithm.SHA_512, [digest])


def _component(
    kind: str, name: str, version: str, algorithm: HashAlgorithm, digests: Iterable[str]
) -> Component:
    url = PackageURL(kind, name=name, version=version)
    hashes = [HashType(alg=algorithm, content=digest) for digest in digests]
    return Component(name=name, version=version, purl=url, bom_ref=str(url), hashes=hashes)
