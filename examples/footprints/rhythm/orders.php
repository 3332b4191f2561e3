<?php
// SPDX-License-Identifier: Apache-2.0 OR MIT
// 300,000 orders, of which 20 change each millisecond.
ini_set('memory_limit', '1G');
mt_srand(1);
$orders = [];
for ($i = 0; $i < 300000; $i++)
	$orders[$i] = ['id' => $i, 'lines' => [$i % 7], 'total' => 1.5 * $i];
for (;;) {
	for ($i = 0; $i < 20; $i++)
		$orders[mt_rand(0, 299999)]['total'] += 1;
	usleep(1000);
}
