"""Architectures of transformers that the tests compare, by what they take: ``docs_pages`` writes their table."""

from __future__ import annotations

from collections.abc import Mapping

TESTED: Mapping[str, Mapping[str, str]] = {
    "texts": {
        "albert": "ALBERT",
        "bert": "BERT",
        "camembert": "CamemBERT",
        "deberta-v2": "DeBERTa-v3",
        "distilbert": "DistilBERT",
        "electra": "ELECTRA",
        "modernbert": "ModernBERT",
        "mpnet": "MPNet",
        "nomic_bert": "Nomic BERT",
        "roberta": "RoBERTa",
        "xlm-roberta": "XLM-R",
    },
    "images": {
        "beit": "BEiT",
        "clip_vision_model": "CLIP's image encoder",
        "convnext": "ConvNeXt",
        "convnextv2": "ConvNeXt V2",
        "deit": "DeiT",
        "detr": "DETR",
        "dinov2": "DINOv2",
        "efficientnet": "EfficientNet",
        "levit": "LeViT",
        "mobilenet_v1": "MobileNet V1",
        "mobilenet_v2": "MobileNet V2",
        "mobilevit": "MobileViT",
        "poolformer": "PoolFormer",
        "regnet": "RegNet",
        "resnet": "ResNet",
        "segformer": "SegFormer",
        "siglip_vision_model": "SigLIP's image encoder",
        "swin": "Swin",
        "vit": "ViT",
        "yolos": "YOLOS",
    },
    "texts and images": {"clip": "CLIP", "siglip": "SigLIP"},
    "sound": {
        "audio-spectrogram-transformer": "AST",
        "data2vec-audio": "Data2Vec",
        "hubert": "HuBERT",
        "sew": "SEW",
        "sew-d": "SEW-D",
        "unispeech": "UniSpeech",
        "unispeech-sat": "UniSpeech-SAT",
        "wav2vec2": "Wav2Vec2",
        "wav2vec2-conformer": "Wav2Vec2-Conformer",
        "wavlm": "WavLM",
        "whisper": "Whisper's classifiers",
    },
}
"""Their names by ``model_type`` of config.json."""
