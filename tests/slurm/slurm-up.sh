#!/usr/bin/env bash
# Starts a private Slurm on this machine, for tests: a controller and four
# nodes, each with 32 CPUs and 8 GPUs that are null devices. It listens on
# loopback only and keeps everything in one folder. Needs root, and Debian's
# slurmctld, slurmd and slurm-client; neither munge nor systemd nor cgroups.
#
#   [S=folder] [NODES=4] [PORT=17100] tests/slurm/slurm-up.sh
#   export SLURM_CONF=$S/slurm.conf
#   tests/slurm/slurm-down.sh --purge
set -euo pipefail
umask 022

folder=${S:-${TMPDIR:-/tmp}/oppa-slurm-test}
nodes=${NODES:-4}
port=${PORT:-17100}
cpus=32
gpus=8
host=$(hostname -s)

if ! command -v slurmctld slurmd sbatch >/dev/null; then
  echo "slurm-up: Slurm is not installed: scripts/install-deps --slurm" >&2
  exit 1
fi
mkdir -p "$folder"/{state,log,dev}
for i in $(seq "$nodes"); do mkdir -p "$folder/spool/n$i"; done
for i in $(seq 0 $((gpus - 1))); do
  [ -e "$folder/dev/gpu$i" ] || mknod "$folder/dev/gpu$i" c 1 3
done

# Without NoInAddrAny the daemons would listen on every address, and with
# auth/none that would let any caller control this machine. cred_expire is the
# delay of every requeue. config_overrides lets nodes claim CPUs that are not
# there.
cat >"$folder/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser=$(id -un)
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd-%n.log
MailProg=/bin/true
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1
DependencyParameters=kill_invalid_depend
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=${SLURMD_TIMEOUT:-30}
KillWait=5
MinJobAge=${MIN_JOB_AGE:-3600}
MaxArraySize=1001
DefMemPerCPU=100
GresTypes=gpu
NodeName=n[1-$nodes] NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1))-$((port + nodes)) CPUs=$cpus RealMemory=4000 Gres=gpu:$gpus State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES DefaultTime=60 MaxTime=INFINITE State=UP
CONF
echo "NodeName=n[1-$nodes] Name=gpu File=$folder/dev/gpu[0-$((gpus - 1))]" >"$folder/gres.conf"

export SLURM_CONF=$folder/slurm.conf
slurmctld
for i in $(seq "$nodes"); do slurmd -N "n$i"; done
for _ in $(seq 120); do
  idle=$(sinfo --noheader --Node --format='%N %T' 2>/dev/null | grep -c ' idle$' || true)
  if [ "$idle" -eq "$nodes" ]; then
    echo "slurm-up: $nodes nodes; export SLURM_CONF=$SLURM_CONF"
    exit 0
  fi
  sleep 0.25
done
echo "slurm-up: the nodes did not come up, see $folder/log" >&2
sinfo >&2 || true
exit 1
