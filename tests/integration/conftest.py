import pytest
from shipper_tools.dev.hdfs import HdfsServer
from shipper_tools.dev.java import SHORT_LIVED
from shipper_tools.dev.kafka import KafkaServer
from shipper_tools.dev.secured_kafka import LISTENERS, SecuredKafka

from tests import warm
from tests.doubles.oidc_issuer import OidcIssuer
from tests.integration.hdfs_world import hdfs_files
from tests.integration.world import World
from tests.warm import kafka_tools

#: Files that take longest. Workers take whole files, and who begins one of these last would be
#: waited for.
_LONGEST = ("test_kill", "test_stop", "test_ship", "test_sql_rules", "test_secured_cluster")


def pytest_collection_modifyitems(items: list[pytest.Item]):
    items.sort(
        key=lambda item: (
            _LONGEST.index(item.path.stem) if item.path.stem in _LONGEST else len(_LONGEST)
        )
    )


@pytest.fixture(scope="session")
def kafka(tmp_path_factory):
    """A real broker for the whole test run. Tests share it, so each makes topics of its own."""
    with KafkaServer(
        tmp_path_factory.mktemp("kafka"), java_options=SHORT_LIVED, die_with_parent=True
    ) as server:
        yield server


@pytest.fixture
def make_world(tmp_path, kafka):
    """Return what makes a world of the test's own, by options of :class:`World`."""
    return lambda **options: World(tmp_path, kafka.bootstrap, **options)


@pytest.fixture
def world(make_world):
    return make_world()


@pytest.fixture(scope="module")
def spark(request):
    """A Spark session of this process, for the tests of a file."""
    from tests.integration.source_world import spark_session

    with spark_session(request.module.__name__) as session:
        yield session


@pytest.fixture(scope="session")
def secured(tmp_path_factory):
    """A broker with a listener for each way in, and ACLs: what tests grant is allowed. Each has
    topics of its own."""
    from tests.integration.test_security import PASSWORD, SECRET

    with (
        OidcIssuer({"shipper": SECRET}, lives_seconds=60) as issuer,
        SecuredKafka(
            tmp_path_factory.mktemp("secured"),
            {"shipper": PASSWORD},
            listeners=LISTENERS,
            acls=True,
            issuer=issuer,
        ) as kafka,
    ):
        yield kafka


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory):
    """A real NameNode and DataNode, and a client that writes. A test that hurts them makes them
    whole again; each has folders of its own."""
    with (
        HdfsServer(tmp_path_factory.mktemp("hdfs"), die_with_parent=True) as server,
        hdfs_files(server) as files,
    ):
        yield files


@pytest.fixture(scope="session", autouse=True)
def _warm_processes():
    with kafka_tools.for_readers():
        yield
    warm.end()


@pytest.fixture(autouse=True)
def _cold_where_it_is_marked(request):
    with warm.cold(request.node.get_closest_marker("cold") is not None):
        yield
