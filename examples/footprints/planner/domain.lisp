;;;; SPDX-License-Identifier: Apache-2.0 OR MIT
;;;;
;;;; Rooms, doors, slippers and a dog (document 000, figure 7), and boxes to be stacked.

(in-package :planner)

(defparameter *rooms*
  (make-domain
   :criticality '((goal . 4) (is-room . 4) (waits . 4) (thing . 4) (door . 4)
                  (has . 3) (slippers-in . 3) (box-in . 3) (on . 3) (clear . 2)
                  (in . 2) (open . 1))
   :operators
   (list
    (operator '(go-through-door ?from ?to)
              '((is-room ?to) (door ?from ?to) (in dog ?from) (open ?from ?to))
              '((in dog ?to)) '((in dog ?from)))
    (operator '(push-open ?from ?to)
              '((door ?from ?to) (in dog ?from))
              '((open ?from ?to) (open ?to ?from)) '())
    (operator '(get-slippers ?room)
              '((slippers-in ?room) (in dog ?room))
              '((has dog slippers)) '((slippers-in ?room)))
    (operator '(give-slippers ?room)
              '((waits me ?room) (has dog slippers) (in dog ?room))
              '((has me slippers)) '((has dog slippers)))
    (operator '(push-box ?box ?from ?to)
              '((thing ?box) (door ?from ?to) (box-in ?box ?from) (clear ?box) (in dog ?from)
                (open ?from ?to))
              '((box-in ?box ?to) (in dog ?to)) '((box-in ?box ?from) (in dog ?from)))
    (operator '(stack ?box ?other)
              '((thing ?box) (thing ?other) (box-in ?other ?room) (box-in ?box ?room)
                (clear ?box) (clear ?other) (in dog ?room))
              '((on ?box ?other)) '((clear ?other))))))

(defun house (side &key (closed '()) (things '()))
  "SIDE × SIDE rooms with doors between neighbours, open but for those in CLOSED (pairs of rooms)."
  (flet ((name (x y) (intern (format nil "R~d-~d" x y) :planner)))
    (let ((facts (copy-list things)))
      (dotimes (x side)
        (dotimes (y side)
          (push `(is-room ,(name x y)) facts)
          (loop for (dx dy) in '((1 0) (0 1))
                for nx = (+ x dx) for ny = (+ y dy)
                when (and (< nx side) (< ny side))
                  do (let ((a (name x y)) (b (name nx ny)))
                       (dolist (pair (list (list a b) (list b a)))
                         (push (cons 'door pair) facts)
                         (unless (or (member (list a b) closed :test #'equal)
                                     (member (list b a) closed :test #'equal))
                           (push (cons 'open pair) facts)))))))
      facts)))

(defun slippers-problem (side)
  "The dog starts in one corner of the house, the slippers lie in another, behind a closed door."
  (let ((far (intern (format nil "R~d-~d" (1- side) (1- side)) :planner))
        (by (intern (format nil "R~d-~d" (1- side) (- side 2)) :planner)))
    (values '((has me slippers))
            (house side :closed (list (list by far))
                        :things `((in dog r0-0) (waits me r0-0) (slippers-in ,far))))))

(defun boxes-problem (side boxes)
  "BOXES boxes lie in a row of rooms and are to be stacked. The planner keeps the order of goals: the
lowest comes first, since nothing can be taken from under another box."
  (let* ((names (loop for i below boxes collect (intern (format nil "BOX~d" i) :planner)))
         (rooms (loop for i below boxes
                      collect (intern (format nil "R~d-0" (mod i side)) :planner))))
    (values (loop for (lower upper) on names while upper collect (list 'on upper lower))
            (house side
                   :things (append '((in dog r0-0))
                                   (loop for box in names for room in rooms
                                         append `((thing ,box) (clear ,box)
                                                  (box-in ,box ,room))))))))
