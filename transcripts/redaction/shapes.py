"""Tokens that show themselves by their own form: prefixes of vendors, hashes of passwords, JWT."""

from __future__ import annotations

import re
from typing import Final

SHAPES: Final = re.compile(
    r"(?<![A-Za-z0-9])(?P<v>"
    r"hf_[A-Za-z0-9]{16,}|api_org_[A-Za-z0-9]{20,}|sk-(?=[A-Za-z0-9_-]*\d)(?:proj-|ant-|or-|svcacct-|admin-)?[A-Za-z0-9_-]{12,}"
    r"|sk-[A-Za-z0-9]{32,}"
    r"|(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA)[A-Z0-9]{16}|gh[opusr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    r"|gl(?:pat|dt|rt|cbt|ptt|ft|soat)-[A-Za-z0-9_-]{16,}|xox[abeoprs]-[A-Za-z0-9-]{10,}"
    r"|xapp-[A-Za-z0-9-]{10,}|nvapi-[A-Za-z0-9_-]{16,}"
    r"|hv[sbr]\.[A-Za-z0-9_-]{16,}|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}|GOCSPX-[A-Za-z0-9_-]{20,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)?|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}"
    r"|dop_v1_[a-f0-9]{40,}|dckr_(?:pat|oat)_[A-Za-z0-9_-]{16,}|gsk_[A-Za-z0-9]{20,}"
    r"|xai-[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{20,}"
    r"|pplx-[A-Za-z0-9]{20,}|tgp_v1_[A-Za-z0-9_-]{20,}|fw_[A-Za-z0-9]{20,}"
    r"|AGE-SECRET-KEY-1[A-Z0-9]{40,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"
    r"|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9]{16,}|tskey-[A-Za-z0-9-]{16,}"
    r"|lin_api_[A-Za-z0-9]{20,}|dapi[a-f0-9]{32}"
    r"|ms-[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}"
    r"|wandb_v1_[A-Za-z0-9_]{20,}|glc_[A-Za-z0-9+/=]{20,}"
    r"|\$(?:1|apr1|2[abxy]|5|6|7|y|gy|sha1|argon2id?)\$[./A-Za-z0-9$=,+-]{12,})"
)

# Tokens of vendors whose prefixes stand in ordinary words too: looked for only where a long run of characters is.
LONG_RUN: Final = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{16,}")
VENDORS: Final = re.compile(
    r"(?<![A-Za-z0-9])(?P<v>"
    r"pypi-[A-Za-z0-9_-]{16,}|sq0(?:csp|atp|idp)-[A-Za-z0-9_-]{20,}|EAAA[A-Za-z0-9_-]{50,}|shp(?:at|ca|pa|ss)_[A-Za-z0-9]{20,}"
    r"|(?:SK|AC)[0-9a-f]{32}|key-[0-9a-f]{32}|[0-9a-f]{32}-us\d{1,2}|dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{30,}"
    r"|dt0[a-z]\d\d\.[A-Z0-9]{20,}\.[A-Z0-9]{40,}|NR(?:AK|II|JS|RA|BR)-[A-Za-z0-9-]{16,}|glsa_[A-Za-z0-9_]{30,}"
    r"|PMAK-[A-Za-z0-9-]{30,}|AT(?:ATT|CTT|BB)[A-Za-z0-9_=-]{20,}|fig[dou]_[A-Za-z0-9_-]{20,}"
    r"|(?:secret|ntn)_[A-Za-z0-9]{40,}|pat[A-Za-z0-9]{14}\.[0-9a-f]{64}|rubygems_[a-f0-9]{40,}|sb[ps]_[a-f0-9]{36,}"
    r"|sb_(?:secret|publishable)_[A-Za-z0-9_-]{20,}|nfp_[A-Za-z0-9]{30,}|(?:fm[12]|fo1)_[A-Za-z0-9+/=_,-]{30,}|rnd_[A-Za-z0-9]{24,}"
    r"|HRKU-[A-Za-z0-9_-]{30,}|do[opr]_v1_[a-f0-9]{40,}|CFPAT-[A-Za-z0-9_-]{30,}|EAA[A-Za-z0-9]{80,}|1//0[A-Za-z0-9_-]{30,}"
    r"|AAAA[A-Za-z0-9_-]{7}:[A-Za-z0-9_-]{100,}|\d{8,10}:AA[A-Za-z0-9_-]{30,}|[MNO][A-Za-z\d]{23,25}\.[\w-]{6}\.[\w-]{27,}"
    r"|lsv2_(?:pt|sk)_[A-Za-z0-9_]{30,}|tvly-[A-Za-z0-9-]{20,}|jina_[A-Za-z0-9_-]{30,}|pcsk_[A-Za-z0-9_]{30,}|csk-[a-z0-9]{30,}"
    r"|esecret_[A-Za-z0-9]{20,}|sntry[su]_[A-Za-z0-9+/=_]{30,}|ops_eyJ[A-Za-z0-9+/=_-]{30,}|LTAI[A-Za-z0-9]{12,}"
    r"|AKID[A-Za-z0-9]{28,}|ABSK[A-Za-z0-9+/=]{60,}|gl(?:oas|imt|agent|ffct|ptt|wt)-[A-Za-z0-9_-]{16,}|GR1348941[A-Za-z0-9_-]{16,}"
    r"|pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{30,}|CCDB1_[A-Za-z0-9_]{20,}|d(?:kea|ose|sapi)[a-f0-9]{32}|AKCp[A-Za-z0-9]{60,}"
    r"|cmVmdGtu[A-Za-z0-9]{50,}|ph[cx]_[A-Za-z0-9]{30,}|lin_oauth_[A-Za-z0-9]{20,}|oy2[a-z0-9]{43}|cio[A-Za-z0-9]{32}"
    r"|pa-[A-Za-z0-9_-]{40,}|EZ[AT]K[A-Za-z0-9]{50,}|SCW[A-Z0-9]{17}|DO00[A-Z0-9]{16}|amzn\.mws\.[0-9a-f-]{36}"
    r"|v1\.0-[0-9a-f]{24}-[0-9a-f]{100,}|atlasv1\.[A-Za-z0-9_=-]{30,}|[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{30,}"
    r"|bkua_[a-z0-9]{40}|xkeysib-[a-f0-9]{40,}|sendinblue-[a-f0-9]{40,}|tfp_[A-Za-z0-9_]{30,}|sdk-[0-9a-f-]{36}"
    r"|api-[0-9a-f]{8}-[0-9a-f-]{27}|BSA[A-Za-z0-9_-]{27,}|ctp_[A-Za-z0-9_-]{30,}|CLOJARS_[a-z0-9]{50,}|sgp_[A-Za-z0-9_]{30,}"
    r"|hub[a-z]{2,4}_[A-Za-z0-9]{30,}|pat-[a-z]{2}\d-[0-9a-f-]{36}|frp_[A-Za-z0-9]{20,}|unkey_[A-Za-z0-9]{20,}|e2b_[a-f0-9]{40}"
    r"|up_[A-Za-z0-9]{28,}|sk_(?:[a-z]{2,9}_)?[A-Za-z0-9]{24,})"
)
