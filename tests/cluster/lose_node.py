"""A cluster of two nodes on this machine, of which one is lost: with its workers, and what waits there.

`python tests/cluster/lose_node.py` prints how many results were lost with it, and what came of all tasks.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import ray
from ray.cluster_utils import Cluster as Nodes

from layup.cluster import Cluster, in_order

TASKS = 40


def ready(folder: str) -> Callable[[int], bytes]:
    """Tasks that begin when there are workers on both nodes."""
    Path(folder, ray.get_runtime_context().get_node_id()).touch()

    def slow(number: int) -> bytes:
        """Too large to travel with the news that it is done: it waits on its node."""
        while len(list(Path(folder).iterdir())) < 2:
            time.sleep(0.05)
        time.sleep(0.2)
        return bytes([number]) * 10**6

    return slow


def main() -> None:
    nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    other = nodes.add_node(num_cpus=2)
    nodes.wait_for_nodes()
    lost: list[int] = []
    real_wait = ray.wait

    def wait(references, **options):
        """The first result on the other node is not fetched: its node is lost before that."""
        ready, others = real_wait(references, fetch_local=False, **options)
        (found,) = ray.experimental.get_object_locations(ready).values()
        if not lost and [*found["node_ids"]] == [other.node_id]:
            nodes.remove_node(other, allow_graceful=False)
            lost.append(1)
        return ready, others

    ray.wait = wait
    with tempfile.TemporaryDirectory() as folder, Cluster(nodes.address).pool(ready, folder) as pool:
        assert pool.size == 3
        found = [*in_order(pool.run(range(TASKS)))]
    nodes.shutdown()
    print(len(lost), found == [bytes([number]) * 10**6 for number in range(TASKS)])


if __name__ == "__main__":
    main()
