from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.chaos.world import Pipe, Site, site


def pytest_configure(config: pytest.Config):
    config.addinivalue_line("markers", "short: of the fault tests those that CI runs")


@pytest.fixture(scope="session")
def shared_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Three brokers behind proxies, for the whole test run."""
    with site(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def new_pipe(shared_site: Site, tmp_path: Path) -> Iterator[Callable[..., Pipe]]:
    """Makes a pipeline on the cluster, which is well at the beginning of the test and again after
    it."""
    pipes = []

    def new(**settings):
        shape = {
            name: settings.pop(name)
            for name in ("topics", "partitions", "missing")
            if name in settings
        }
        pipes.append(Pipe(shared_site, tmp_path, **shape, settings=settings))
        return pipes[-1]

    try:
        shared_site.heal()
        yield new
    finally:
        for pipe in pipes:
            pipe.stop()
        shared_site.heal()
