"""Searchers of the same space with the same trials: `oppa tune`, its random search, and Optuna's TPE."""

import dataclasses
import json
import time

from job import Failure, Space, run


@dataclasses.dataclass
class Search:
    """What a searcher did and chose."""
    config: dict
    seconds: float
    trials: list  # of job.Trial

    def summary(self):
        return {"config": self.config, "seconds": self.seconds, "trials": len(self.trials),
                "distinct": len({Space.text(trial.config) for trial in self.trials}),
                "stopped": sum(trial.outcome == "terminated_early" for trial in self.trials),
                "failed": sum(trial.outcome not in ("completed", "terminated_early") for trial in self.trials)}


def best(trials, default):
    """The configuration of the completed trial with the highest throughput, else the default."""
    done = [trial for trial in trials if trial.outcome == "completed" and trial.steps_per_s]
    return max(done, key=lambda trial: trial.steps_per_s).config if done else default


def run_tune(job, method, show):
    """`oppa tune`, with everything that it does: preflight, search, and repeated measurements at the end."""
    manifest = job.with_method(method)
    results = job.folder / "oppa-results" / manifest.stem
    clock = job.folder / f"{manifest.stem}-seconds.json"  # also of interrupted runs
    before = json.loads(clock.read_text()) if clock.exists() else 0.0
    begin = time.monotonic()

    def save(line):
        clock.write_text(json.dumps(before + time.monotonic() - begin))
        show(line)

    run([job.oppa, "tune", manifest.name], job.folder, save)
    save("done")
    chosen = json.loads((results / "best.json").read_text())["parameters"]
    config = next((one for one in job.space.candidates
                   if all(str(chosen[name]) == value for name, value in one.items())), None)
    trials = job.trials(results / method / "1")
    if config not in [trial.config for trial in trials]:
        raise Failure(f"{results / 'best.json'}: not a configuration that was tried")
    return Search(config, json.loads(clock.read_text()), trials)


def run_random(job, seconds, show):
    trials = job.run_random(job.folder / "random", seconds, show=show)
    return Search(best(trials, job.default), trials[-1].elapsed_s if trials else 0.0, trials)


def choose(space, pick):
    """A configuration, one parameter after another.

    `pick(parameter, values)` returns one of the values that the choices so far leave. A parameter whose values are
    restricted by earlier ones is a parameter of its own, as usual for conditional spaces in Optuna.
    """
    left = space.candidates
    for name in space.names:
        values = space.values_among(left, name)
        value = values[0]
        if len(values) > 1:
            restricted = values != space.values[name]
            value = pick(f"{name} of {'/'.join(values)}" if restricted else name, values)
        left = [candidate for candidate in left if candidate[name] == value]
    return left[0]


def is_ordered(values):
    """Whether the values are an ordinal parameter: at least three numbers."""
    return len(values) > 2 and all(value.replace(".", "", 1).isdigit() for value in values)


def suggest(space, trial):
    """A configuration that Optuna suggests; ordinal parameters are positions in their list."""
    def pick(parameter, values):
        if is_ordered(values):
            return values[trial.suggest_int(parameter, 0, len(values) - 1)]
        return trial.suggest_categorical(parameter, values)

    return choose(space, pick)


def parameters_of(space, config):
    """The parameters of Optuna that make it suggest a configuration."""
    parameters = {}

    def pick(parameter, values):
        value = config[parameter.partition(" of ")[0]]
        parameters[parameter] = values.index(value) if is_ordered(values) else value
        return value

    choose(space, pick)
    return parameters


def run_tpe(job, seconds, seed, show):
    """Optuna's TPE with its defaults, from the default configuration. A trial without a throughput has failed (FAIL)."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    folder = job.folder / "tpe"
    folder.mkdir(exist_ok=True)
    backend = optuna.storages.journal.JournalFileBackend(str(folder / "journal.log"))
    study = optuna.create_study(direction="maximize", study_name=job.name, load_if_exists=True,
                                storage=optuna.storages.JournalStorage(backend))
    done = study.get_trials(deepcopy=False)
    study.sampler = optuna.samplers.TPESampler(seed=seed + len(done))
    if not done:
        study.enqueue_trial(parameters_of(job.space, job.default))
    used = sum(trial.user_attrs.get("seconds", 0.0) for trial in done)
    while used < seconds:
        begin = time.monotonic()
        trial = study.ask()
        config = suggest(job.space, trial)
        records = folder / str(trial.number)
        measured = job.measure(config, records, seconds - used)
        works = measured.outcome == "completed" and measured.steps_per_s
        spent = time.monotonic() - begin
        trial.set_user_attr("seconds", spent)
        study.tell(trial, measured.steps_per_s if works else None,
                   None if works else optuna.trial.TrialState.FAIL)
        used += spent
        show(f"trial {trial.number + 1}: {job.changes(config)}: {measured.outcome}"
             + (f", {measured.steps_per_s * job.tokens:.0f} tokens/s" if works else "") + f" ({used:.0f} s used)")
    numbers = [trial.number for trial in study.get_trials(deepcopy=False) if "seconds" in trial.user_attrs]
    trials = [measured for number in numbers
              for measured in job.trials(folder / str(number) / job.name / "random" / "1")]
    return Search(best(trials, job.default), used, trials)
