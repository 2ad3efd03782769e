from . import (
    comparison as comparison,
    datasets as datasets,
    laws as laws,
    methods as methods,
    metrics as metrics,
    plots as plots,
)
from .evaluation import Evaluation as Evaluation
from .experiment import Experiment as Experiment, run_tasks as run_tasks
from .mistakes import Mistake as Mistake, mistakes_csv as mistakes_csv
from .pictures import figures as figures
from .results import Record as Record, Step as Step, find_records as find_records
from .run_names import short_dataset as short_dataset
from .run_spec import NO_ADAPTER as NO_ADAPTER, RunSpec as RunSpec, run as run
from .scenarios import (
    SETTINGS as SETTINGS,
    STREAM_BATCH as STREAM_BATCH,
    Scenario as Scenario,
    class_incremental as class_incremental,
    domain_incremental as domain_incremental,
    online as online,
    scenario_of as scenario_of,
)
from .spread import Ran as Ran, spread_runs as spread_runs
