;;;; SPDX-License-Identifier: Apache-2.0 OR MIT
;;;;
;;;; sbcl --script test.lisp: plans are found, and each holds when it is run step by step.

(load (merge-pathnames "planner.lisp" *load-truename*))
(load (merge-pathnames "domain.lisp" *load-truename*))
(in-package :planner)

(defvar *failed* nil)

(defun check (name true)
  (format t "~:[FAILED~;ok~] ~a~%" true name)
  (unless true (setf *failed* t)))

(defun check-plan (name goals state)
  (let* ((lengths (list 0 0 0 0))     ; of each space's last skeleton, the one that was refined
         (names (plan goals state *rooms* '(4 3 2 1)
                      :report (lambda (level steps)
                                (setf (nth (- 4 level) lengths) (length steps))))))
    (check (format nil "~a: a plan of ~d steps" name (length names)) names)
    (when names
      (let ((end (run-plan names state *rooms*)))
        (check (format nil "~a: its goals hold at its end" name)
               (every (lambda (goal) (holds-p goal end)) goals))))
    (check (format nil "~a: no space's plan is longer than the one below: ~a" name lengths)
           (apply #'<= lengths))
    names))

(check "unification"
       (and (equal (match '(in ?x r1) '(in dog r1) '()) '((?x . dog)))
            (eq (match '(in ?x ?x) '(in dog r1) '()) :fail)
            (eq (match '(in dog) '(in dog r1) '()) :fail)))
(multiple-value-call #'check-plan "slippers, 2 × 2" (slippers-problem 2))
(multiple-value-call #'check-plan "slippers, 3 × 3" (slippers-problem 3))
(let ((names (multiple-value-call #'check-plan "slippers, 4 × 4" (slippers-problem 4))))
  (check "the closed door is pushed open" (find 'push-open names :key #'first))
  (check "the slippers are fetched before they are given"
         (< (position 'get-slippers names :key #'first)
            (position 'give-slippers names :key #'first))))
(multiple-value-call #'check-plan "2 boxes" (boxes-problem 2 2))
(multiple-value-call #'check-plan "3 boxes" (boxes-problem 3 3))
(check "no plan where there is none"
       (null (plan '((has me slippers)) (house 2 :things '((in dog r0-0) (waits me r0-0)))
                   *rooms* '(4 3 2 1))))
(sb-ext:exit :code (if *failed* 1 0))
