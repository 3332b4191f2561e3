;;; emacs-hanoi.el --- document 000's program, between its two dumps -*- lexical-binding: t -*-
;; SPDX-License-Identifier: Apache-2.0 OR MIT

;; emacs --batch -Q -l emacs-hanoi.el: (hanoi 10) with every position shown and no delay between
;; moves. HANOI_RUNS runs of it, each between two marks (marks.c).

(require 'hanoi)
(setq hanoi-move-period nil)
(let ((inhibit-message t))
  (set-frame-size (selected-frame) 80 24)
  (dotimes (_ (string-to-number (or (getenv "HANOI_RUNS") "1")))
    (signal-process (emacs-pid) 40)
    (hanoi 10)
    (signal-process (emacs-pid) 41)))
