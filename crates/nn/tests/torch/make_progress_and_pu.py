"""Makes pu_risks.json and progress.json. Needs torch (CPU); run it in this folder.

The risk is written as in the paper (Kiryo et al., 2017, algorithm 1) and differentiated by autograd, in double precision; so are the
cross entropy of two-hot labels over bins, and the logit of the mean of such a distribution.
"""

import json

import torch
import torch.nn.functional as F

torch.manual_seed(3)
torch.set_default_dtype(torch.float64)


def pu_case(prior, beta, gamma, positives, unlabelled):
    p = torch.tensor(positives, requires_grad=True)
    u = torch.tensor(unlabelled, requires_grad=True)
    positive_risk = prior * F.softplus(-p).mean()
    negative_risk = F.softplus(u).mean() - prior * F.softplus(p).mean()
    if negative_risk.item() < -beta:
        risk, step = positive_risk - beta, -gamma * negative_risk
    else:
        risk = step = positive_risk + negative_risk
    step.backward()
    return {
        "prior": prior, "beta": beta, "gamma": gamma, "positives": positives, "unlabelled": unlabelled,
        "risk": risk.item(), "negative_risk": negative_risk.item(),
        "positive_gradients": p.grad.tolist(), "unlabelled_gradients": u.grad.tolist(),
    }


def pu_cases():
    cases = []
    for prior in [0.1, 0.5, 0.9]:
        for beta, gamma in [(0.0, 1.0), (0.05, 0.5)]:
            mixed = (torch.randn(6) * 2).tolist(), (torch.randn(9) * 2).tolist()
            learned_by_heart = (torch.rand(5) * 4 + 2).tolist(), (-torch.rand(7) * 4 - 2).tolist()
            cases += [pu_case(prior, beta, gamma, *mixed), pu_case(prior, beta, gamma, *learned_by_heart)]
    cases.append(pu_case(0.5, 0.0, 1.0, [40.0, -40.0], [60.0, -60.0]))
    return cases


def progress_case(outputs, label):
    outputs = outputs.float().double()  # as the network gives them
    count = len(outputs)
    target = torch.full((count,), 1.0 / count)
    if label is not None:
        at = label * (count - 1)
        below = min(int(at), count - 2)
        target = torch.zeros(count)
        target[below], target[below + 1] = 1 - (at - below), at - below
    z = outputs.clone().requires_grad_()
    loss = -(target * F.log_softmax(z, 0)).sum()
    loss.backward()
    gradient = z.grad.tolist()
    z = outputs.clone().requires_grad_()
    centres = torch.linspace(0, 1, count)
    shares = F.softmax(z, 0)
    mean = (shares * centres).sum()
    std = (shares * (centres - mean) ** 2).sum().sqrt()
    logit = torch.logit(mean)
    logit.backward()
    return {
        "outputs": outputs.tolist(), "label": label, "loss": loss.item(), "gradient": gradient, "mean": mean.item(),
        "std": std.item(), "logit": logit.item(), "logit_gradient": z.grad.tolist(),
    }


def progress_cases():
    labels = [0.0, 0.31, 0.5, 0.999, 1.0, None]
    return [progress_case(torch.randn(count) * 2, label) for count in [2, 7, 20] for label in labels]


for name, cases in [("pu_risks.json", pu_cases()), ("progress.json", progress_cases())]:
    with open(name, "w") as out:
        json.dump(cases, out, separators=(",", ":"))
        out.write("\n")
