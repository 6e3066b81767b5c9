"""Runs the workers of this machine: one process for each slot of the CPU, and for each GPU that encodes."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Sequence
from dataclasses import replace

import structlog

from tqstudio.config import Settings
from tqstudio.engine.assembly.services import Services
from tqstudio.engine.host import memory
from tqstudio.engine.media.ffmpeg import hardware
from tqstudio.engine.media.ffmpeg.hardware import Device, TrialResults
from tqstudio.engine.parts.part import Background
from tqstudio.engine.queue.worker_pool import Slot, default_cpu_workers

_GPUS_WITHIN_S = 20.0
"""How long CPU workers wait for GPUs that only decode; one that hangs must not hold them up."""


class LocalWorkers(Background):
    """Finds the GPUs, and has the pool keep a process running in each slot."""

    def __init__(self, services: Services) -> None:
        super().__init__(self._start_all)
        self._services = services

    async def stop(self) -> None:
        """End the processes; until then they still report."""
        await super().stop()
        await self._services.pool.stop()

    async def _start_all(self) -> None:
        settings, pool = self._services.settings, self._services.pool
        finding = asyncio.create_task(asyncio.to_thread(self._find_gpus))
        await asyncio.wait([finding], timeout=_GPUS_WITHIN_S if settings.gpu_decode else 0)
        found = finding.result() if finding.done() and finding.exception() is None else []
        for slot in cpu_slots(settings, [device for device in found if not device.encoders]):
            pool.start(slot)
        for device in await finding:
            words = {"encoders": device.encoders, "decodes": device.decodes}
            structlog.get_logger().info("gpu found", device=device.label, **words)
            if device.encoders:
                slot = Slot(device.name, "gpu", device.encoders, device.node, device.label, device.decodes)
                pool.start(slot)

    def _find_gpus(self) -> list[Device]:
        settings = self._services.settings
        if not settings.uses_gpus:
            return []
        return hardware.discover(
            self._services.ffmpeg,
            decode=settings.gpu_decode,
            known=TrialResults(self._services.home.gpu_trials),
            stopped=lambda: self._services.draining,
        )


def cpu_slots(settings: Settings, decoders: Sequence[Device] = ()) -> list[Slot]:
    """Return the slots of the CPU workers, which share the GPUs that only decode."""
    count = settings.workers or default_cpu_workers(os.cpu_count() or 1, memory.total())
    slots = [Slot(f"cpu-{index}", "cpu") for index in range(count)]
    if not decoders:
        return slots
    return [
        replace(slot, device=gpu.node, label=gpu.label, decodes=gpu.decodes)
        for slot, gpu in zip(slots, itertools.cycle(decoders), strict=False)
    ]
