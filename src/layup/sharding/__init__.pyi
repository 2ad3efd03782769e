from .masked import Agreement as Agreement, Masked as Masked, learn_masked as learn_masked
from .plan import Plan as Plan, is_plan as is_plan
from .ray_engine import compute_on_ray as compute_on_ray, learn_on_ray as learn_on_ray
from .remaining import left as left, work as work
from .shard import Shard as Shard, compute as compute
from .unions import AgainError as AgainError, union as union
