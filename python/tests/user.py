"""Every public call, as a user writes them: for type checkers only (scripts/python-tests)."""
import oppa
from typing import List, Optional

plan: oppa.Plan = oppa.plan({"layers": 32, "hidden": 4096}, gpus="2x8", gpu="h100", batch=256, seq=8192, precision="fp8",
                            headroom=5, price=2.5, framework=["megatron-lm"], rule=["$tp > 4"], training="lora_rank=16")
best: oppa.Layout = plan.best
shares: float = best.shares["compute"]
count: int = best.microbatches + best.micro_batch_size
text: str = best.command + str(plan) + plan.why("dp=8") + plan.why({"dp": 8}) + oppa.__version__
band: Optional[float] = best.band[0] if best.band else None
memory: oppa.Memory = best.memory
peak: float = memory.peak_bytes
table = plan.to_dataframe()
notes: List[str] = plan.notes + best.notes
study: oppa.Study = oppa.create_study("tune.toml", storage="results", load_if_exists=True, method="oppa", settings=["budget.trials=5"])
for trial in study:
    print(trial.config["dp"], trial.number, trial.seed, trial.time_limit_s)
    if trial.predicted is not None:
        peak = trial.predicted.peak_memory_bytes
    for step in range(1, trial.max_steps + 1):
        trial.report(1.0, step)
        if trial.should_prune():
            break
    told: oppa.FrozenTrial = study.tell(trial, state="pruned" if trial.should_prune() else "complete", peak_memory_bytes=peak)
    state: oppa.State = told.state
best_time: Optional[float] = study.best_trial.step_time_s
frame = study.trials_dataframe()
for one in study.trials:
    print(one.step_times, one.chosen_by)
config = study.enqueue_trial({"dp": 4})
study.add_trial(config, step_time_s=0.4)
for layout in study.plan(3):
    print(layout["label"])
print(study.parameters["dp"], study.folder, study.name, study.description, study.method, study.candidates)
study.close()
for batch in oppa.steps([1, 2, 3]):
    print(batch + 1)
clock = oppa.StepClock()
clock.start()
done: bool = clock.step()
oppa.report(step_time_s=1.0)
request = oppa.trial()
try:
    program: str = oppa.find_program()
except oppa.SearchEnded as ended:
    print(ended)
except oppa.OppaError as error:
    print(oppa.is_out_of_memory(error))
