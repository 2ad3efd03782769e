from .connection import Cluster as Cluster
from .pool import Pool as Pool, Shared as Shared, in_order as in_order
