# SPDX-License-Identifier: Apache-2.0 OR MIT
# Rscript matrix.R RUNS: a matrix of 64 MB; 300 of its 2,000 columns are scaled in place, RUNS times, each
# between two marks (../marks.c).
runs <- as.integer(commandArgs(trailingOnly = TRUE)[1])
set.seed(1988)
columns <- lapply(1:2000, function(i) runif(4000))
for (run in seq_len(runs)) {
	of <- sample(2000, 300)
	tools::pskill(Sys.getpid(), 40)
	for (i in of) columns[[i]][seq(1, 4000, 2)] <- run
	tools::pskill(Sys.getpid(), 41)
}
