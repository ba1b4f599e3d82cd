;; Gives a name that is not UTF-8.
(func (export "clawhost:environment/environment@0.1.0#describe") (result i32)
  (i32.store (i32.const 512) (i32.const 0xfffefdfc))
  (i32.const 1024))
