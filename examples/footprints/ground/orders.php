<?php
// SPDX-License-Identifier: Apache-2.0 OR MIT
// php orders.php RUNS: 200,000 orders; 20,000 of them, at random, get a line more or lose one, RUNS times,
// each between two marks (../marks.c).
ini_set('memory_limit', '-1');
mt_srand(1988);
$orders = [];
for ($i = 0; $i < 200000; $i++)
	$orders[] = ['id' => $i, 'total' => $i * 7 % 1000, 'lines' => [$i, $i + 1]];
for ($run = 0; $run < (int)$argv[1]; $run++) {
	posix_kill(getmypid(), 40);
	for ($i = 0; $i < 20000; $i++) {
		$order = &$orders[mt_rand(0, count($orders) - 1)];
		$order['total'] += $run;
		if (count($order['lines']) > 3) array_pop($order['lines']);
		else $order['lines'][] = $i;
		unset($order);
	}
	posix_kill(getmypid(), 41);
}
