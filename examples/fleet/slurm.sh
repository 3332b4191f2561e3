#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Measure nodes under Slurm, an array task a node, into one shared folder:
#   sbatch --array=1-20 --constraint=m7i.large --export=ALL,FLEET=/shared/fleet slurm.sh
# The instance type is the node's first feature, unless INSTANCE_TYPE says another. Each run is one folder that
# appears when it is whole; it is its owner's, so that whoever submits the job reads it.
#
#SBATCH --job-name=cowlab-calibrate
#SBATCH --exclusive
#SBATCH --time=15
set -euo pipefail
: "${FLEET:?is the shared folder}"
type=${INSTANCE_TYPE:-$(scontrol --oneliner show node "$SLURMD_NODENAME" |
	sed -nE 's/.* ActiveFeatures=([A-Za-z0-9._+-]+).*/\1/p')}
exec "${COWLAB:-cowlab}" calibrate --rounds "${ROUNDS:-6}" --output \
	"$FLEET/instance_type=${type:-__HIVE_DEFAULT_PARTITION__}/host=$SLURMD_NODENAME/kernel=$(uname -r)"
