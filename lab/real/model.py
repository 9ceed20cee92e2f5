# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Write a tiny Llama with random weights and a tokenizer: python model.py FOLDER, with transformers' Python.

It answers nonsense, but printable nonsense, and through all of vLLM's real code. The seed is fixed, so every copy is
the same model.
"""

from __future__ import annotations

import sys

# Installed beside vLLM only (make.py), not with the tools of this checkout.
import torch  # type: ignore[import-not-found, unused-ignore]
from tokenizers import (  # type: ignore[import-not-found]
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    trainers,
)
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast  # type: ignore[import-not-found]

TRAINED_ON = "Prefill reads the whole prompt at once, decode writes one token after the other."
VOCABULARY = 400


def main(folder: str) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator([TRAINED_ON], trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>").save_pretrained(folder)

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        bos_token_id=0,
        eos_token_id=1,
    )
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    # What cannot be shown is never the likeliest token, nor is the end: every answer has its full length.
    texts = [tokenizer.decode([token]) for token in range(VOCABULARY)]
    odd = [token for token, text in enumerate(texts) if not (text.strip() and text.isascii() and text.isprintable())]
    model.lm_head.weight.data[[config.eos_token_id, *odd]] = 0
    model.save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1])
