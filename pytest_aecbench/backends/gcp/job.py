"""The definition of a Batch job: one task for each trial of an image."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from google.cloud import batch_v1

from pytest_aecbench.backends.gcp.options import parsed_disk
from pytest_aecbench.backends.gcp.scripts import MOUNT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_aecbench.backends import Limits, TrialRequest

__all__ = [
    "ENDS",
    "INFRASTRUCTURE",
    "LIFETIME_SEC",
    "MOST_PARALLEL",
    "Kind",
    "define",
    "kind_of",
    "kinds",
    "label",
    "longest",
    "split",
]

MOST_PARALLEL = 5_000
_MOST_TASKS = 100_000
_MOST_BYTES = 1_000_000
# A machine of no given type is chosen by Batch for these.
_CPUS, _MEMORY_MB = 1.0, 2048
_JOB = batch_v1.JobStatus.State
ENDS = (_JOB.SUCCEEDED, _JOB.FAILED, _JOB.CANCELLED, _JOB.DELETION_IN_PROGRESS)
# The exit codes of Batch for machines that were taken away or lost.
INFRASTRUCTURE = (50001, 50002, 50003, 50004, 50006)
LIFETIME_SEC = 3600.0  # of a sandbox that has no limit


class Kind(NamedTuple):
    """The images and limits that all tasks of a job share."""

    image: str
    verifier_image: str | None  # None if the verifier does not have a container of its own
    cpus: float | None
    memory_mb: int | None
    storage_mb: int | None
    gpus: int
    network: bool
    verifier_network: bool


def kinds(requests: Sequence[TrialRequest]) -> dict[Kind, list[TrialRequest]]:
    """Return the requests by their images and limits."""
    found: dict[Kind, list[TrialRequest]] = {}
    for request in requests:
        image = request.verifier_image_ref if request.verifier is not None else None
        kind = kind_of(request.image_ref, request.limits, image, request.verifier_network)
        found.setdefault(kind, []).append(request)
    return found


def kind_of(
    image: str,
    limits: Limits,
    verifier_image: str | None = None,
    verifier_network: bool = False,
) -> Kind:
    """Return the kind of a job by what a request says."""
    return Kind(
        image,
        verifier_image,
        limits.cpus,
        limits.memory_mb,
        limits.storage_mb,
        limits.gpus,
        limits.network,
        verifier_network,
    )


def split(requests: Sequence[TrialRequest]) -> Iterator[list[TrialRequest]]:
    """Yield the requests of one kind in as many parts as the number of tasks in a job asks for."""
    for start in range(0, len(requests), _MOST_TASKS):
        yield list(requests[start : start + _MOST_TASKS])


def label(text: str) -> str:
    """Return a text as the value of a label, which has small letters, digits and dashes."""
    return re.sub(r"[^a-z0-9_-]", "-", text.lower())[:63]


def longest(requests: Sequence[TrialRequest]) -> float:
    """Return the longest lifetime of the requests' sandboxes."""
    return max(one.limits.lifetime_sec or LIFETIME_SEC for one in requests)


def define(
    kind: Kind,
    count: int,
    lifetime_sec: float,
    *,
    remote_path: str,
    options: Mapping[str, Any],
    parallelism: int | None,
    labels: Mapping[str, str],
    command: str = "",
) -> batch_v1.Job:
    """Return the job for ``count`` requests of one kind, whose files are at ``remote_path``.

    A single ``command`` is the number that its files have.
    """
    agent = f"agent {command}".strip()
    runnables = [_runnable(agent, kind.image, kind, network=kind.network, options=options)]
    if kind.verifier_image is not None:
        # An agent's end is data, also if it took its container along.
        runnables[0].ignore_exit_status = True
        network = kind.verifier_network
        verify = _runnable("verify", kind.verifier_image, kind, network=network, options=options)
        runnables.append(verify)
    volumes = [batch_v1.Volume(gcs=batch_v1.GCS(remote_path=remote_path), mount_path=MOUNT)]
    for number, disk in enumerate(options.get("disks", ())):
        path = parsed_disk(disk)[2]
        volumes.append(batch_v1.Volume(device_name=_device(number), mount_path=path))
    spec = batch_v1.TaskSpec(
        runnables=runnables,
        compute_resource=batch_v1.ComputeResource(
            cpu_milli=math.ceil(1000 * (kind.cpus or _CPUS)),
            memory_mib=kind.memory_mb or _MEMORY_MB,
            boot_disk_mib=kind.storage_mb or 0,
        ),
        max_run_duration=f"{math.ceil(lifetime_sec)}s",
        volumes=volumes,
    )
    if retries := options.get("max_retry_count", 0):
        spec.max_retry_count = retries
        spec.lifecycle_policies = [
            batch_v1.LifecyclePolicy(
                action=batch_v1.LifecyclePolicy.Action.RETRY_TASK,
                action_condition={"exit_codes": INFRASTRUCTURE},
            )
        ]
    group = batch_v1.TaskGroup(
        task_spec=spec,
        task_count=count,
        parallelism=min(parallelism or MOST_PARALLEL, MOST_PARALLEL, count),
    )
    job = batch_v1.Job(
        task_groups=[group],
        allocation_policy=_allocation(kind, options, labels),
        labels=dict(labels),
        logs_policy={"destination": batch_v1.LogsPolicy.Destination.CLOUD_LOGGING},
    )
    size = len(batch_v1.Job.to_json(job))
    assert size < _MOST_BYTES, size  # a trial's own data are in the bucket
    return job


def _runnable(
    phase: str, image: str, kind: Kind, *, network: bool, options: Mapping[str, Any]
) -> batch_v1.Runnable:
    """Return the container of a phase, which is the word that its script starts with."""
    flags = ["--user=0"]
    if not network:
        flags.append("--network=none")
    if kind.memory_mb:
        flags.append(f"--memory={kind.memory_mb}m")
    if kind.cpus:
        flags.append(f"--cpus={kind.cpus:g}")
    if kind.gpus:
        flags.append("--gpus=all")
    if options["hide_bucket"]:  # the script needs it, and takes it from what it starts
        flags += ["--cap-add=SYS_ADMIN", "--security-opt=apparmor=unconfined"]
    # A verifier apart must not find there what the agent has left.
    shared = options.get("disks", ()) if phase != "verify" else ()
    disks = [parsed_disk(disk)[2] for disk in shared]
    container = batch_v1.Runnable.Container(
        image_uri=image,
        entrypoint="bash",
        commands=["-c", f"exec bash {MOUNT}/run {phase}"],
        options=" ".join(flags),
        volumes=[f"{path}:{path}:rw" for path in (MOUNT, *disks)],
    )
    return batch_v1.Runnable(container=container, display_name=phase)


def _device(number: int) -> str:
    return f"aecbench-{number}"


def _allocation(
    kind: Kind, options: Mapping[str, Any], labels: Mapping[str, str]
) -> batch_v1.AllocationPolicy:
    policy = batch_v1.AllocationPolicy
    instance = policy.InstancePolicy()
    if machine_type := options.get("machine_type"):
        instance.machine_type = machine_type
    model: Any = policy.ProvisioningModel
    instance.provisioning_model = model.SPOT if options.get("spot") else model.STANDARD
    if "boot_disk_gb" in options or "boot_disk_image" in options:
        instance.boot_disk = policy.Disk(
            size_gb=options.get("boot_disk_gb", 0), image=options.get("boot_disk_image", "")
        )
    for number, text in enumerate(options.get("disks", ())):
        disk_type, size_gb, _ = parsed_disk(text)
        disk = policy.Disk(type_=disk_type, size_gb=size_gb)
        instance.disks.append(policy.AttachedDisk(new_disk=disk, device_name=_device(number)))
    accelerator = options.get("accelerator_type")
    if accelerator:
        count = kind.gpus or options.get("accelerator_count", 1)
        instance.accelerators = [policy.Accelerator(type_=accelerator, count=count)]
    chosen = policy.InstancePolicyOrTemplate(
        policy=instance, install_gpu_drivers=accelerator is not None
    )
    allocation = policy(instances=[chosen], labels=dict(labels))
    region, zone = options["region"], options.get("zone")
    place = f"zones/{zone}" if zone else f"regions/{region}"
    allocation.location = policy.LocationPolicy(allowed_locations=[place])
    if email := options.get("service_account"):
        allocation.service_account = batch_v1.ServiceAccount(email=email)
    network = {key: options[key] for key in ("network", "subnetwork") if key in options}
    if network or options.get("no_external_ip"):
        allocation.network = policy.NetworkPolicy(
            network_interfaces=[
                policy.NetworkInterface(
                    **network, no_external_ip_address=bool(options.get("no_external_ip"))
                )
            ]
        )
    return allocation
