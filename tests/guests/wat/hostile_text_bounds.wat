;; Gives a name that reaches beyond its memory.
(func (export "clawhost:environment/environment@0.1.0#describe") (result i32)
  (i32.store (i32.const 1028) (i32.const 0x3fff0))
  (i32.store (i32.const 1032) (i32.const 0x100))
  (i32.const 1024))
