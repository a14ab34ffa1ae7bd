"""What Prometheus reads: gathered when it asks, so that a request costs nothing for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from aios.model import Status
from aios.service.dispatcher import Service


class Metrics(Collector):
    """The daemon's numbers. Its labels have few values: statuses and doors, never ids.

    Args:
        connections: How many are open, by door.
        streams: How many event streams are open.
        requests: How many HTTP requests have been answered.
    """

    def __init__(
        self,
        *,
        service: Service,
        connections: Callable[[], Mapping[str, int]],
        streams: Callable[[], int],
        requests: Callable[[], int],
    ) -> None:
        self._service = service
        self._connections = connections
        self._streams = streams
        self._requests = requests
        self._counts: Mapping[Status | str, int] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    async def text(self) -> bytes:
        """Give all numbers as they are now."""
        self._counts = await self._service.engine.counts()
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        """See `Collector`."""
        counts = self._counts
        tasks = GaugeMetricFamily("aios_tasks", "Tasks by status.", labels=["status"])
        for status in Status:
            tasks.add_metric([status], counts.get(status, 0))
        yield tasks
        yield GaugeMetricFamily("aios_queue_depth", "Tasks that wait for a slot.", counts.get(Status.PENDING, 0))
        yield GaugeMetricFamily("aios_slots_taken", "Tasks that hold a slot.", counts.get("slots", 0))
        limits = self._service.engine.limits
        yield GaugeMetricFamily("aios_slots", "Slots there are.", limits.max_concurrent_tasks)
        is_writable = self._service.engine.health().is_writable
        yield GaugeMetricFamily("aios_store_writable", "Whether the store can write.", int(is_writable))
        yield GaugeMetricFamily("aios_sse_streams", "Open event streams.", self._streams())
        yield CounterMetricFamily("aios_http_requests", "HTTP requests answered.", self._requests())
        connections = GaugeMetricFamily("aios_connections", "Open connections by door.", labels=["door"])
        for door, number in self._connections().items():
            connections.add_metric([door], number)
        yield connections
